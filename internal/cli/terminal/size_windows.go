package terminal

// watchSize tells when our terminal has another size: here nothing says so.
func watchSize() (resized <-chan struct{}, end func()) { return nil, func() {} }
