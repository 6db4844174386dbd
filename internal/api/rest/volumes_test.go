package rest_test

import (
	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/apitest"
)

func (v view) Volumes() belljar.Volumes { return apitest.Still{}.As(v.caller).Volumes() }
