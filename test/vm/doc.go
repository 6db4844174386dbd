// Package vm runs Go test binaries in a small virtual machine: Debian's cloud kernel under QEMU's software emulation, so
// that it needs neither KVM nor root. The machine has only cgroup v2, like most users' machines and unlike many build
// machines, and a root file system that supports pivot_root.
//
// It needs the packages qemu-system-x86 and busybox-static, and the kernel that kernel.sh fetches without installing it.
package vm
