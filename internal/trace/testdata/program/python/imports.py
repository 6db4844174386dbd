import json

import syntax
