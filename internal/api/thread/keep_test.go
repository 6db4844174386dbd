package thread

import _ "mvdan.cc/sh/v3/syntax"
