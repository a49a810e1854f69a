#!/bin/sh
# A plugin in plain shell: it needs a POSIX shell and nothing else. Where things are comes from the
# environment; the component's configuration is one small file per key in $EXCLAVE_CONFIG_DIR.
# What it prints as JSON lines is understood, everything else is shown as log text.
set -eu

message="$EXCLAVE_STATE_DIR/motd"

# Text as a JSON string, quotes included.
json() {
  printf '"%s"' "$(printf '%s' "$1" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g')"
}

setting() {
  if [ -f "$EXCLAVE_CONFIG_DIR/$1" ]; then cat "$EXCLAVE_CONFIG_DIR/$1"; else printf '%s' "$2"; fi
}

fail() {
  printf '{"type":"result","ok":false,"failure":{"code":"invalid","message":%s}}\n' "$(json "$1")"
  exit 1
}

health() {
  printf '{"type":"result","ok":true,"health":"%s","because":%s}\n' "$1" "$(json "$2")"
}

# Text that is safe on the right side of sed's s|…|…|.
replacement() {
  printf '%s' "$1" | sed -e 's/[\\|&]/\\&/g'
}

render() {
  title=$(replacement "$(setting title '')")
  owner=$(replacement "$(setting owner 'nobody in particular')")
  sed -e "s|@title@|$title|g" -e "s|@owner@|$owner|g" "$EXCLAVE_FILES/notice.txt"
}

case "$EXCLAVE_OPERATION" in
  build)
    [ -f "$EXCLAVE_FILES/notice.txt" ] || fail "the source has no notice.txt"
    mkdir -p "$EXCLAVE_WORK_DIR/build"
    cp "$EXCLAVE_FILES/notice.txt" "$EXCLAVE_WORK_DIR/build/"
    echo "packed notice.txt"
    ;;
  apply)
    render > "$message.new"
    mv "$message.new" "$message"
    printf '{"type":"output","name":"path","value":%s}\n' "$(json "$message")"
    printf '{"type":"output","name":"lines","value":%d}\n' "$(wc -l < "$message")"
    printf '{"type":"resource","action":"changed","kind":"file","name":"motd"}\n'
    ;;
  status)
    if [ ! -f "$message" ]; then
      health missing "there is no message"
    elif [ "$(render)" = "$(cat "$message")" ]; then
      health healthy "the message is in place"
    else
      health degraded "somebody changed the message"
    fi
    ;;
  logs)
    [ ! -f "$message" ] || cat "$message"
    ;;
  destroy)
    rm -f "$message"
    printf '{"type":"resource","action":"destroyed","kind":"file","name":"motd"}\n'
    ;;
  *)
    fail "motd has no $EXCLAVE_OPERATION"
    ;;
esac
