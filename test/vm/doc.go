// Package vm runs Go test binaries in a small virtual machine: Debian's cloud kernel under QEMU's software emulation, so
// that it needs neither KVM nor root. The machine has cgroup v2 alone, as most of our users' machines do and many build
// machines do not, and a root file system that can be pivoted away from.
//
// It needs the packages qemu-system-x86 and busybox-static, and the kernel that kernel.sh fetches without installing it.
package vm
