//go:build linux

package main

import (
	"bufio"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// mountPoints lists every mount that this process sees.
func mountPoints(r *report) []string {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		r.breach("control: %v", err)
		return nil
	}
	defer f.Close()
	var points []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		points = append(points, strings.Fields(lines.Text())[4])
	}
	if len(points) == 0 {
		r.breach("control: no mounts at all")
	}
	return points
}

// remount tries to make every mount writable, to unmount it, and to bind it elsewhere.
func remount(r *report, _ []string) {
	for _, p := range mountPoints(r) {
		r.refused("remount rw "+p, unix.Mount("none", p, "", unix.MS_REMOUNT, ""))
		r.refused("remount bind rw "+p, unix.Mount("none", p, "", unix.MS_REMOUNT|unix.MS_BIND, ""))
		r.refused("unmount "+p, unix.Unmount(p, unix.MNT_DETACH))
		r.refused("bind "+p, unix.Mount(p, "/tmp", "", unix.MS_BIND|unix.MS_REC, ""))
		attr := unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
		r.refused("mount_setattr "+p, unix.MountSetattr(unix.AT_FDCWD, p, unix.AT_RECURSIVE, &attr))
	}
}

// mounts tries to mount new file systems, with the old calls and with the new.
func mounts(r *report, _ []string) {
	for _, kind := range []string{"tmpfs", "proc", "sysfs", "cgroup", "cgroup2", "overlay", "fuse", "devpts", "mqueue", "ext4", "nfs"} {
		r.refused("mount "+kind, unix.Mount("none", "/tmp", kind, 0, ""))
		_, err := unix.Fsopen(kind, 0)
		r.refused("fsopen "+kind, err)
	}
	_, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.AT_RECURSIVE)
	r.refused("open_tree /", err)
	r.refused("move_mount", unix.MoveMount(unix.AT_FDCWD, "/tmp", unix.AT_FDCWD, "/run", 0))
	r.refused("pivot_root", unix.PivotRoot("/", "/tmp"))
	r.refused("chroot", unix.Chroot("/workspace"))
}

// devices makes device nodes in every writable place, and opens those that must not be there.
func devices(r *report, places []string) {
	for _, place := range places {
		for name, dev := range map[string]int{"mem": int(unix.Mkdev(1, 1)), "null": int(unix.Mkdev(1, 3)), "kmsg": int(unix.Mkdev(1, 11))} {
			r.refused("mknod c "+place+"/"+name, unix.Mknod(place+"/"+name, unix.S_IFCHR|0o666, dev), unix.EPERM, unix.EACCES, unix.EROFS, unix.EEXIST)
		}
		r.refused("mknod b "+place, unix.Mknod(place+"/disk", unix.S_IFBLK|0o666, int(unix.Mkdev(254, 0))), unix.EPERM, unix.EACCES, unix.EROFS)
	}
	entries, err := os.ReadDir("/dev")
	r.works("list /dev", err)
	known := " null zero full random urandom tty fd stdin stdout stderr ptmx pts shm console "
	for _, e := range entries {
		if e.Name() == "mqueue" { // an engine makes one; Belljar's is empty and accepts nothing
			inside, err := os.ReadDir("/dev/mqueue")
			if err != nil || len(inside) > 0 || unix.Access("/dev/mqueue", unix.W_OK) == nil {
				r.breach("/dev/mqueue holds %d entries, %v, or can be written to", len(inside), err)
			}
			continue
		}
		if ownKernel() && (e.Name() == "fuse" || e.Name() == "net") {
			continue // a device of gVisor's kernel, which has no devices of the host
		}
		if !strings.Contains(known, " "+e.Name()+" ") {
			r.breach("/dev/%s is there", e.Name())
		}
	}
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	r.works("open /dev/null", err)
	if err == nil {
		_, err = null.Write([]byte("x"))
		r.works("write /dev/null", err)
	}
}

// initexe opens PID 1's program for writing: that is how CVE-2019-5736 replaced the host's own runtime.
func initexe(r *report, _ []string) {
	denied := []error{unix.EACCES, unix.EPERM, unix.EROFS} // not ETXTBSY, which ends with the program
	open := func(what, path string) {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			_, err = f.Write([]byte("#!/bin/sh\n"))
			f.Close()
		}
		r.refused(what, errnoOf(err), denied...)
	}
	open("open /proc/1/exe for writing", "/proc/1/exe")
	if fd, err := unix.Open("/proc/1/exe", unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
		open("reopen an O_PATH descriptor of /proc/1/exe", "/proc/self/fd/"+itoa(fd))
		unix.Close(fd)
	} else if !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EPERM) {
		r.breach("O_PATH open of /proc/1/exe: %v", err)
	}
	r.refused("truncate /proc/1/exe", errnoOf(os.Truncate("/proc/1/exe", 0)), denied...)
}
