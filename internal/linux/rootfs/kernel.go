//go:build linux

package rootfs

// Devices are the names of all nodes in /dev.
func Devices() []string { return []string{"null", "zero", "full", "random", "urandom", "tty"} }

// DeviceLinks are the links in /dev, by name and target. The terminals, /dev/pts, and the shared memory, /dev/shm, are the
// sandbox's own.
func DeviceLinks() [][2]string {
	return [][2]string{
		{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
		{"ptmx", "pts/ptmx"},
	}
}

// HiddenFiles are the files of /proc that reveal or affect the host. No process in a user namespace can read those that only
// the host's root can read (kpageflags, slabinfo, vmallocinfo …), so they are not worth a mount. The list has only those of
// them that could harm the host, as a second protection. Every kernel has the last one.
func HiddenFiles() []string {
	return []string{
		"kcore", "keys", "key-users", "kmsg", "kallsyms", "latency_stats", "timer_list", "timer_stats", "sched_debug",
		"sysrq-trigger", "modules", "iomem", "ioports", "interrupts", "softirqs", "diskstats", "partitions", "config.gz",
		"locks", "buddyinfo", "zoneinfo", "crypto", "swaps", "cmdline",
	}
}

// HiddenSettings are the files below /proc/sys that count the resources of the whole host, or that can be polled: as for hostname, the kernel
// has one queue of those who wait, which each change on the host or of a sandbox walks. Every kernel has the last one.
func HiddenSettings() []string {
	return []string{"sys/fs/aio-nr", "sys/fs/inode-nr", "sys/kernel/domainname", "sys/fs/file-nr"}
}

// HostnameFile is the file of /proc with the host's name.
const HostnameFile = "sys/kernel/hostname"

// BootID is the file of /proc that identifies the boot of the host: two sandboxes that read the same id would know that they
// share a host.
const BootID = "sys/kernel/random/boot_id"

// HiddenFolders are the folders of /proc that reveal or affect the host. Every kernel has the last one.
func HiddenFolders() []string {
	return []string{"acpi", "asound", "scsi", "driver", "bus", "irq", "tty", "pressure", "fs"}
}

// ReadOnly lists the folders of /proc that are read-only.
func ReadOnly() []string { return []string{"sys"} }
