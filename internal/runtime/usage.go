package runtime

// LessAgent subtracts the agent's own tasks from figures that count all tasks of a sandbox. The agent's tasks are counted now,
// not at the peak, so it may have started some since. limit is how many processes programs may have, 0 for no limit. A limit on
// a user's processes reports no refusals. So a peak that reaches the limit counts as one refusal, unless the limit is so low that
// every program reaches it.
//
// Some kernels count for a sandbox what a group above it refused, so the peak shows whose limit that was.
func (u *Usage) LessAgent(tasks, limit int64) {
	if tasks == 0 {
		return
	}
	const less = ", less the agent's"
	if u.Pids != nil {
		n := max(*u.Pids-tasks, 0)
		u.Pids = &n
		u.Sources["pids"] += less
	}
	if u.PeakPids == nil {
		return
	}
	const keeper = 1
	n := max(*u.PeakPids-tasks-keeper, 0)
	u.PeakPids = &n
	u.Sources["peak_pids"] += less
	drift := min(8, limit/8)
	u.PidsBelow = n < limit-2*8
	if drift > 0 && n >= limit-drift && (u.PidsRefused == nil || *u.PidsRefused == 0) {
		one := int64(1)
		u.PidsRefused = &one
		u.Sources["pids_refused"] = "peak_pids at RLIMIT_NPROC"
	}
}
