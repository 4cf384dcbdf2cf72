# bash completion for dlockctl. It needs no other script.
#
# Keys and owners are anybody's words: whatever is typed or offered, nothing of it is run, and what
# is inserted is quoted, also where it is only what several offers have in common.

# __dlockctl_read WORD: the word as the shell would read it, into REPLY. It fails for a word that
# would run something, or whose quotes are open, and leaves it as it is.
__dlockctl_read()
{
    local name='[A-Za-z_][A-Za-z0-9_]*'
    local variable="[\$]($name|[{]$name[}])"
    local static="^([^][:space:]\"'\`\\\\\$&|;<>()]|[]]|\\\\.|$variable|'[^']*'|[\$]'([^'\\\\]|\\\\.)*'|\"([^\"\`\\\\\$]|\\\\.|$variable)*\")*\$"
    REPLY=$1
    [[ $1 =~ $static ]] || return
    # A variable that is not set is empty, and no error where the user has set -u.
    local options=$-
    set +u
    eval "REPLY=$1"
    [[ $options != *u* ]] || set -u
}

# __dlockctl_option OPTION…: compopt, which bash 3 has not, and nosort, which only bash 4.4 has.
__dlockctl_option()
{
    [[ $(type -t compopt) != builtin ]] || compopt "$@" 2>/dev/null
}

__start_dlockctl()
{
    COMPREPLY=()
    # The words before the cursor as they were typed: COMP_WORDS are broken at each colon.
    local piece="([^[:space:]\"'\\\\]|\\\\.|'[^']*'|[\$]'([^'\\\\]|\\\\.)*'|\"([^\"\\\\]|\\\\.)*\")"
    local first="^[[:space:]]*($piece+)[[:space:]]" last=${COMP_LINE:0:COMP_POINT} words=()
    while [[ $last =~ $first ]]; do
        words+=("${BASH_REMATCH[1]}")
        last=${last:${#BASH_REMATCH[0]}}
    done
    last=${last#"${last%%[![:space:]]*}"}

    # An alias is not called: what it stands for is not known here.
    local REPLY program=dlockctl
    __dlockctl_read "${words[0]-}"
    [[ -z $(type -P -- "$REPLY") ]] || program=$REPLY
    local ask=("$program" __complete) word flags=1
    for word in "${words[@]:1}"; do
        __dlockctl_read "$word"
        ask+=("$REPLY")
        [[ $REPLY != -- ]] || flags=
    done

    # readline puts an offer in the place of $2, the end of the word; kept is what it leaves.
    local typed kept=${last%"$2"} quote=
    if __dlockctl_read "$last" || __dlockctl_read "${last%\\}"; then
        typed=$REPLY
    else
        quote=${kept: -1}
        case $quote in
        \' | \") kept=${kept%"$quote"} ;;
        *) return ;;
        esac
        __dlockctl_read "$last$quote" || return
        typed=$REPLY
    fi
    __dlockctl_read "$kept" || return
    kept=$REPLY

    # Without this variable only what needs no quotes is offered.
    local out directive
    out=$(DLOCKCTL_COMPLETION_QUOTED=1 "${ask[@]}" "$typed" 2>/dev/null </dev/null)
    directive=${out##*:}
    out=${out%:*}
    # 1: it failed. 2: no space follows. 4: files are none of it. 8: files that end in these. 32: in this order.
    [[ $directive =~ ^[0-9]+$ ]] && ((!(directive & 1))) || return
    ((!(directive & 2))) || __dlockctl_option -o nospace
    ((!(directive & 4))) || __dlockctl_option +o default
    ((!(directive & 32))) || __dlockctl_option -o nosort
    if ((directive & 8)); then
        local file ending
        __dlockctl_option -o filenames
        while IFS= read -r file; do
            COMPREPLY+=("$file")
        done < <(compgen -d -- "${typed#"$kept"}"; for ending in $out; do compgen -f -X "!*.$ending" -- "${typed#"$kept"}"; done)
        return
    fi

    # --flag=value is answered by the value. After -- there are no flags.
    local before='' line row offer about offers=() shown=() width=0 common
    [[ -z $flags || $typed != -*=* ]] || before=${typed%%=*}=
    while IFS= read -r line; do
        offer=$before${line%%$'\t'*}
        [[ -n $line && $offer == "$typed"* ]] || continue
        # Inside of quotes only what stands there as itself.
        [[ -z $quote || ${offer#"$kept"} != *[\'\"\\\$\`!]* ]] || continue
        offers+=("$offer")
        shown+=("$line")
        ((${#offer} <= width)) || width=${#offer}
        common=${common-$offer}
        while [[ $offer != "$common"* ]]; do common=${common%?}; done
    done <<<"$out"

    case ${#offers[@]}:${COMP_TYPE-}:$quote in
    0:* | 1:*) ;;
    *:9: | *:33: | *:64:) # Tab: as far as they agree, or some settings' list at once.
        if [[ $COMP_TYPE == 9 || $common != "$typed" ]]; then
            offers=("$common")
            __dlockctl_option -o nospace
        fi
        ;;
    *:63:*) # Tab again: a list, of which nothing is inserted.
        for row in "${shown[@]}"; do
            offer=${row%%$'\t'*} about=${row#*$'\t'}
            [[ $row != *$'\t'* ]] || printf -v offer '%-*s  (%s)' "$width" "$offer" "$about"
            COMPREPLY+=("${offer:0:${COLUMNS:-80}-1}")
        done
        return
        ;;
    esac
    for offer in ${offers[@]+"${offers[@]}"}; do
        offer=${offer#"$kept"}
        [[ -z $offer || -n $quote ]] || printf -v offer %q "$offer"
        COMPREPLY+=("$offer")
    done
}

if [[ $(type -t compopt) == builtin ]]; then
    complete -o default -F __start_dlockctl dlockctl
else
    complete -o default -o nospace -F __start_dlockctl dlockctl
fi
