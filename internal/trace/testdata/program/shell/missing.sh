echo start
no-such-command x
exit 3
