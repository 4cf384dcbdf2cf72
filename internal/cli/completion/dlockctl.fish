# fish completion for dlockctl.
#
# Keys and owners are anybody's words: whatever is typed or offered, nothing of it is run, and fish
# quotes what it inserts.

function __dlockctl_complete
    # The words before the cursor without their quotes; what they would run stays as it is.
    set -l ask (commandline -opc)
    set -l typed (commandline -ct)
    set -l word (string unescape -- $typed; or printf '%s' $typed)
    type -q -- $ask[1]; or set ask[1] dlockctl

    # Without this variable only what needs no quotes is offered.
    set -l lines (DLOCKCTL_COMPLETION_QUOTED=1 $ask[1] __complete $ask[2..-1] "$word" 2>/dev/null </dev/null)
    set -l directive (string replace -r '^:' '' -- $lines[-1])
    set -e lines[-1]
    string match -qr '^\d+$' -- $directive; or return 1
    # --flag=value is answered by the value. After -- there are no flags.
    set -l flag
    contains -- -- $ask; or set flag (string match -r -- '^-.*?=' $word)
    # 4: files are none of it. 8: files that end in these.
    if test (math "floor($directive / 8) % 2") -eq 1
        set -l endings (string join '|' (string escape --style=regex -- $lines))
        printf '%s\n' "$flag"(__fish_complete_path (string replace -- "$flag" '' $word) | string match -r "^[^\t]*(?:/|\.(?:$endings))(?:\t.*)?\$")
    else if set -q lines[1]
        printf '%s\n' "$flag"$lines
    else if test (math "floor($directive / 4) % 2") -eq 0
        printf '%s\n' "$flag"(__fish_complete_path (string replace -- "$flag" '' $word))
    end
end

complete -c dlockctl -e
complete -c dlockctl -f -a '(__dlockctl_complete)'
