package rest_test

import (
	"github.com/belljar/belljar"
	"github.com/belljar/belljar/test/apitest"
)

func (v view) Templates() belljar.Templates { return apitest.Still{}.As(v.caller).Templates() }
