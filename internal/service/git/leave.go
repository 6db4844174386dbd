package git

import "context"

// maxBatch is the size of the names in one command of git, in bytes.
const maxBatch = 48 << 10

// leaveOut marks the ignored files in the repository's index, so that git in the workspace does not report them as deleted.
func (w *clone) leaveOut(ctx context.Context) error {
	list, err := w.ignore(ctx, checkout)
	if err != nil || list == nil {
		return err
	}
	var names []string
	size := 0
	err = w.stream(ctx, entries(func(entry []byte) error {
		out, err := list.ignored(string(entry))
		if err != nil {
			return badIgnore(err)
		}
		if out {
			if names, size = append(names, string(entry)), size+len(entry); size > maxNames {
				return tooLarge(int64(w.place.Limits.WorkspaceMB)<<20, w.place.Limits.Inodes)
			}
		}
		return nil
	}), "ls-files", "-z")
	for n := 0; err == nil && len(names) > 0; names = names[n:] {
		for n, size = 0, 0; n < len(names) && (n == 0 || size+len(names[n]) <= maxBatch); n++ {
			size += len(names[n]) + 1
		}
		err = w.check(ctx, append([]string{"update-index", "--skip-worktree", "--"}, names[:n]...)...)
	}
	return err
}
