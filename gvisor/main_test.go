package main

import (
	"errors"
	"slices"
	"testing"
)

func TestAllow(t *testing.T) {
	if err := allow(&tmpfsAllowedData, "nr_inodes"); err != nil {
		t.Fatal(err) // this gVisor has another list
	}
	if err := allow(&tmpfsAllowedData, "nr_inodes"); err != nil || !slices.Contains(tmpfsAllowedData, "size") {
		t.Errorf("%q, %v", tmpfsAllowedData, err)
	}
	for name, list := range map[string][]string{"empty": nil, "another": {"ro", "rw"}} {
		if err := allow(&list, "nr_inodes"); err == nil || slices.Contains(list, "nr_inodes") {
			t.Errorf("%s list: %q, %v", name, list, err)
		}
	}
}

func TestTables(t *testing.T) {
	if err := errors.Join(fixOpen(), fenceClone(), enforce(), extendLoopback()); err != nil {
		t.Fatal(err)
	}
}
