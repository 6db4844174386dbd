//go:build linux

package service_test
