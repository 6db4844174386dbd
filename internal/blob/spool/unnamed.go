package spool

import "os"

// unnamed makes a file and takes its name away. Where an open file has to keep it, name reports what is to be removed once
// it is closed.
func unnamed(dir string) (f *os.File, name string, err error) {
	f, err = os.CreateTemp(dir, "belljar-artifacts-")
	if err != nil {
		return nil, "", err
	}
	if os.Remove(f.Name()) != nil {
		name = f.Name()
	}
	return f, name, nil
}
