"""Looks for secrets to steal and prints those that it finds."""

import glob
import os

found = []
PLACES = [
    "/etc/shadow", "/etc/gshadow", "/etc/ssh/*", "/etc/sudoers", "/root/*", "/root/.ssh/*", "/home/*", "/home/*/.ssh/*", "/var/lib/*",
    "/var/log/*", "/var/run/docker.sock", "/run/*.sock", "/run/belljar/*", "/run/secrets/*", "/proc/1/environ", "/proc/1/root/*",
    "/proc/1/cwd/*", "/proc/[0-9]*/environ", "/proc/kcore", "/dev/mem", "/dev/[hsv]d*", "/dev/nvme*", "/sys/*", "/boot/*", "/mnt/*",
]
for place in PLACES:
    for path in glob.glob(place):
        if path.startswith(f"/proc/{os.getpid()}/"):
            continue
        try:
            if os.path.isdir(path):
                found += [path] if os.listdir(path) else []
            elif open(path, "rb").read(1):
                found.append(path)
        except OSError:
            pass

for name in os.environ:
    if any(word in name.upper() for word in ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "SSH_", "AWS_", "SUDO")):
        found.append(f"${name}")

for thing in sorted(set(found)):
    print("found", thing)
print(f"found {len(set(found))} secrets in {len(PLACES)} places")
