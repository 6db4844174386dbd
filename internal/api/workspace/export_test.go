package workspace

const MaxOwn = maxOwn

// LimitFiles makes files of more than n bytes large ones, and returns what was the limit.
func (d *Door) LimitFiles(n int64) (was int64) {
	was, d.maxFile = d.maxFile, n
	return was
}
