package workspace

const MaxOwn = maxOwn

// LimitFiles makes files of more than n bytes count as large, and returns the previous limit.
func (d *Door) LimitFiles(n int64) (was int64) {
	was, d.maxFile = d.maxFile, n
	return was
}
