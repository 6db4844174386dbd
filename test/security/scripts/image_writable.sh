# Attack: Provide an image in which every user may write, and write.
# Why it matters: All sandboxes share one unpacked copy: a file that one writes, the next one runs.
# What must hold: No content, name, mode, time or attribute of the image changes.
# Image: open-folders
breach() { echo "BREACH: $*"; failed=1; }
failed=0
[ "$(cat /opt/open/file)" = "as it was" ] && [ "$(/opt/open/program)" = "as it was" ] || breach "control: the image's files are not there"
before=$(stat -c '%n %s %a %u %g %Y %i' /opt/open /opt/open/file /opt/open/program /var/open)
(echo x >>/opt/open/file) 2>/dev/null && breach "a file was appended to"
(: >/opt/open/file) 2>/dev/null && breach "a file was emptied"
(echo 'echo mine' >/opt/open/program) 2>/dev/null && breach "a program was replaced"
(: >/opt/open/new) 2>/dev/null && breach "a file was made"
mkdir /var/open/new 2>/dev/null && breach "a folder was made"
ln -s / /opt/open/link 2>/dev/null && breach "a link was made"
ln /opt/open/file /opt/open/twin 2>/dev/null && breach "a second name was made"
mv /opt/open/file /opt/open/other 2>/dev/null && breach "a file was renamed"
rm /opt/open/file 2>/dev/null && breach "a file was removed"
chmod 4777 /opt/open/program 2>/dev/null && breach "a mode was changed"
touch /opt/open/file 2>/dev/null && breach "a time was changed"
(exec 3<>/opt/open/file) 2>/dev/null && breach "a file was opened for writing"
[ "$(stat -c '%n %s %a %u %g %Y %i' /opt/open /opt/open/file /opt/open/program /var/open)" = "$before" ] || breach "something of the image has changed"
exit $failed
