package service

type sweeps struct{}

func (w *sweeps) stop() {}
