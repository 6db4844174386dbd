//go:build linux

package rootfs

// Devices are all the nodes in /dev, the host's own.
func Devices() []string { return []string{"null", "zero", "full", "random", "urandom", "tty"} }

// DeviceLinks are the links in /dev, by name and target. The terminals, /dev/pts, and the shared memory, /dev/shm, are the
// sandbox's own.
func DeviceLinks() [][2]string {
	return [][2]string{
		{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
		{"ptmx", "pts/ptmx"},
	}
}

// HiddenFiles are the files of /proc that reveal or affect the host. What only the host's root can read (kpageflags,
// slabinfo, vmallocinfo …) no process in a user namespace can, so it is not worth a mount; of that, only what could harm
// the host is here, as a second protection. Every kernel has the last.
func HiddenFiles() []string {
	return []string{
		"kcore", "keys", "key-users", "kmsg", "kallsyms", "latency_stats", "timer_list", "timer_stats", "sched_debug",
		"sysrq-trigger", "modules", "iomem", "ioports", "interrupts", "softirqs", "diskstats", "partitions", "config.gz",
		"locks", "buddyinfo", "zoneinfo", "crypto", "cmdline",
	}
}

// HiddenSettings are the files below /proc/sys that count what all of the host uses. Every kernel has the last.
func HiddenSettings() []string { return []string{"sys/fs/aio-nr", "sys/fs/inode-nr", "sys/fs/file-nr"} }

// BootID is the file of /proc that names the boot of the host: two sandboxes that read the same would know that they share one.
const BootID = "sys/kernel/random/boot_id"

// HiddenFolders are such folders of /proc. Every kernel has the last.
func HiddenFolders() []string {
	return []string{"acpi", "asound", "scsi", "driver", "bus", "irq", "tty", "pressure", "fs"}
}

// ReadOnly are the folders of /proc that can be read and not written.
func ReadOnly() []string { return []string{"sys"} }
