// Package image has images for tests: a minimal one with only busybox, and those that belljar image build
// makes from Debian packages. Its own test runs programs in them on the native runtime.
package image
