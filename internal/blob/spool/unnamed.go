package spool

import "os"

// unnamed creates a file and removes its name. If the system cannot remove the name of an open file, name is the file to
// remove after it is closed.
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
