# What the scripts of this folder have in common. They need sh, curl, sha256sum and mktemp.
#
# Exit codes: 0 done, 1 a check failed, 2 a setting is missing or wrong, 3 the credentials are refused, 4 the server does not
# answer, 5 something else answers there, 6 the version does not fit.

say() { echo "$name: $*"; }

stop() { # CODE TEXT
	code=$1
	shift
	echo "$name: $*" >&2
	exit "$code"
}

need() { # NAME…: settings that must be there
	for setting; do
		eval "value=\${$setting:-}"
		[ -n "$value" ] || stop 2 "$setting is not set"
	done
}

plain() { # NAME…: paths in the sprite, which go into a command
	for setting; do
		eval "value=\$$setting"
		case $value in
		*[!A-Za-z0-9._/-]* | *..* | *//* | [!/]* | /) stop 2 "$setting must be an absolute path of letters, digits and ._-" ;;
		esac
	done
}

# The settings, as the server has them.
: "${SPRITES_WORKSPACE_SERVICE_PORT:=443}" "${SPRITES_WORKSPACE_SERVICE_PATH:=/}"
: "${SANDBOX_SPRITES_WORKSPACE_ROOT:=/home/sprite/workspace}" "${SANDBOX_SPRITES_SERVICE_ROOT:=/srv/workspace-api}"
: "${SPRITES_SECRETS_DIR:=/home/sprite/.auth}" "${SPRITES_SERVICE_NAME:=workspace-api}" "${TIMEOUT:=30}"

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# ask sends a request. The answer is in $work/body and its status in $status. Tokens go over standard input, so that they are in no
# list of processes. No redirect is followed, and no proxy used.
ask() { # TOKEN METHOD URL [curl arguments…]
	token=$1 method=$2 url=$3
	shift 3
	case $token in *[!!-~]* | *\"* | *\\*) stop 2 "a token has characters that no token has" ;; esac
	: >"$work/body"
	status=$({
		[ -z "$token" ] || printf 'header = "Authorization: Bearer %s"\n' "$token"
	} | curl --config - --silent --request "$method" --noproxy '*' --max-time "$TIMEOUT" --max-filesize 1048576 --proto '=http,https' \
		--output "$work/body" --dump-header "$work/head" --write-out '%{http_code}' "$@" "$url") || status=000
}

# judge ends the script if the last answer is none of the wanted ones. What the server says is not shown: it may hold a token.
judge() { # WHAT
	case $status in
	2??) ;;
	401 | 403) stop 3 "$1: the credentials are refused (status $status)" ;;
	000) stop 4 "$1: the server does not answer" ;;
	429 | 5??) stop 4 "$1: the server cannot answer now (status $status)" ;;
	*) stop 5 "$1: something else answers there (status $status)" ;;
	esac
}

# api sends a request to the sprite's API.
api() { # METHOD PATH [curl arguments…]
	method=$1 below=$2
	shift 2
	ask "$SPRITES_TOKEN" "$method" "${SPRITES_BASE_URL%/}/v1/sprites/$SPRITES_SPRITE_NAME/$below" "$@"
}

# put writes a file of the sprite.
put() { # FILE PATH MODE
	api PUT "fs/write?path=$2&workingDir=/&mode=$3&mkdir=true" --upload-file "$1"
	judge "write $2"
}

apart() { # FOLDER FOLDER: they must not contain each other
	case ${1%/}/ in "${2%/}"/*) stop 2 "$1 must not be in $2" ;; esac
	case ${2%/}/ in "${1%/}"/*) stop 2 "$2 must not be in $1" ;; esac
}

sprite() { # checks the settings of the API
	need SPRITES_BASE_URL SPRITES_SPRITE_NAME SPRITES_TOKEN
	case $SPRITES_SPRITE_NAME in *[!A-Za-z0-9_-]*) stop 2 "SPRITES_SPRITE_NAME is not the name of a sprite" ;; esac
	plain SANDBOX_SPRITES_WORKSPACE_ROOT SANDBOX_SPRITES_SERVICE_ROOT SPRITES_SECRETS_DIR
	apart "$SANDBOX_SPRITES_WORKSPACE_ROOT" "$SANDBOX_SPRITES_SERVICE_ROOT"
	apart "$SANDBOX_SPRITES_WORKSPACE_ROOT" "$SPRITES_SECRETS_DIR"
	apart "$SANDBOX_SPRITES_SERVICE_ROOT" "$SPRITES_SECRETS_DIR"
}

service() { # checks the settings of the workspace service, and sets its address and token
	need SPRITES_WORKSPACE_SERVICE_HOST
	case $SPRITES_WORKSPACE_SERVICE_HOST in *[!A-Za-z0-9._:-]*) stop 2 "SPRITES_WORKSPACE_SERVICE_HOST must be a host name or an address" ;; esac
	case $SPRITES_WORKSPACE_SERVICE_PORT in '' | *[!0-9]*) stop 2 "SPRITES_WORKSPACE_SERVICE_PORT must be a number" ;; esac
	prefix=${SPRITES_WORKSPACE_SERVICE_PATH%/}
	case $prefix in *[!A-Za-z0-9._/-]* | *..* | *//* | [!/]*) stop 2 "SPRITES_WORKSPACE_SERVICE_PATH must be a path that begins with a slash" ;; esac
	scheme=http host=$SPRITES_WORKSPACE_SERVICE_HOST
	case $SPRITES_WORKSPACE_SERVICE_PORT in 443 | 8443) scheme=https ;; esac
	case $host in *:*) host="[$host]" ;; esac
	url=$scheme://$host:$SPRITES_WORKSPACE_SERVICE_PORT$prefix
	service_url=$url
	service_token=${SPRITES_WORKSPACE_SERVICE_TOKEN:-}
	if [ -z "$service_token" ]; then
		need SPRITES_TOKEN SPRITES_SPRITE_NAME
		# Derived as the server does. It is of no use at the API.
		service_token=$(printf 'belljar workspace service\n%s\n%s\n' "$SPRITES_SPRITE_NAME" "$SPRITES_TOKEN" | sha256sum | cut -c1-64)
	fi
}
