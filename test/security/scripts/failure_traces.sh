# Attack: Print lines that look like errors of interpreters and compilers, cut off in the middle.
# Why it matters: The server parses the output of a failed run for the reason of the failure, for every tenant in one process.
# What must hold: The run fails with its own exit code, and the server lives.
# Expect: phase failed
# Expect: exit 3
printf 'a:1\nx\n^\n(Use `node y\n'
printf "thread 'main' panicked at ', x:1:1\n" >&2
printf 'Traceback (most recent call last):\n  File "", line \n' >&2
printf '\tat (\nCaused by: \nException in thread "' >&2
exit 3
