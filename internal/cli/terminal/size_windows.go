package terminal

// watchSize reports no resizes: Windows has no signal for them.
func watchSize() (resized <-chan struct{}, end func()) { return nil, func() {} }
