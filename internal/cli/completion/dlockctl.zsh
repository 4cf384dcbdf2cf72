#compdef dlockctl
compdef _dlockctl dlockctl
# zsh completion for dlockctl.
#
# Keys and owners are anybody's words: whatever is typed or offered, nothing of it is run, and zsh
# quotes what it inserts.

_dlockctl()
{
    # The words before the cursor without their quotes; what they would run or expand stays as it is.
    local -a ask offers lines
    local out directive line program=${(Q)words[1]}
    whence -p -- "$program" >/dev/null || program=dlockctl
    ask=("$program" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}")

    # Without this variable only what needs no quotes is offered.
    out=$(DLOCKCTL_COMPLETION_QUOTED=1 "${ask[@]}" 2>/dev/null </dev/null)
    directive=${out##*:}
    out=${out%:*}
    # 1: it failed. 2: no space follows. 4: files are none of it. 8: files that end in these. 32: in this order.
    [[ $directive == <-> ]] && (( !(directive & 1) )) || return 1
    # --flag=value is answered by the value. After -- there are no flags.
    (( ${ask[(Ie)--]} )) || [[ $PREFIX != -*=* ]] || compset -P 1 '*='
    lines=("${(@f)out}")
    if (( directive & 8 )); then
        _files -g "*.(${(j:|:)lines:#})"
        return
    fi
    for line in "${lines[@]:#}"; do
        line=${${line//\\/\\\\}//:/\\:}
        offers+=("${line/$'\t'/:}")
    done
    local -a order options
    (( !(directive & 2) )) || options+=(-S '')
    (( !(directive & 32) )) || order=(-V)
    if (( $#offers )); then
        _describe "${order[@]}" completions offers "${options[@]}"
    elif (( !(directive & 4) )); then
        _files
    else
        return 1
    fi
}

# Sourced, it has only been defined.
[[ $funcstack[1] != _dlockctl ]] || _dlockctl "$@"
