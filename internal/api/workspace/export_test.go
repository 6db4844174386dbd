package workspace

// LimitFiles makes files of more than n bytes large ones.
func (d *Door) LimitFiles(n int64) { d.maxFile = n }
