// Package image has images for tests: the smallest that is of use, made of nothing but busybox, and those that
// belljar image build makes from Debian packages. Its own test runs programs in them on the native runtime.
package image
