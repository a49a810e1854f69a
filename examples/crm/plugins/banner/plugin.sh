#!/bin/sh
# The vendor's own component type. The contract is in docs/specs/plugin-v1.md; a POSIX shell is enough.
set -eu

banner="$EXCLAVE_STATE_DIR/banner.txt"

# Text as a JSON string, quotes included; lines are joined by \n.
json() {
  printf '"'
  printf '%s' "$1" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' | awk 'NR > 1 { printf "\\n" } { printf "%s", $0 }'
  printf '"'
}

fail() {
  printf '{"type":"result","ok":false,"failure":{"code":"invalid","message":%s}}\n' "$(json "$1")"
  exit 1
}

health() {
  printf '{"type":"result","ok":true,"health":"%s","because":%s}\n' "$1" "$(json "$2")"
}

case "$EXCLAVE_OPERATION" in
  build)
    [ -f "$EXCLAVE_FILES/frame.txt" ] || fail "the source has no frame.txt"
    mkdir -p "$EXCLAVE_WORK_DIR/build"
    cp "$EXCLAVE_FILES/frame.txt" "$EXCLAVE_WORK_DIR/build/"
    ;;
  apply)
    title=$(sed -e 's/[\\|&]/\\&/g' "$EXCLAVE_CONFIG_DIR/title")
    sed -e "s|@title@|$title|g" "$EXCLAVE_FILES/frame.txt" > "$banner.new"
    mv "$banner.new" "$banner"
    printf '{"type":"output","name":"text","value":%s}\n' "$(json "$(cat "$banner")")"
    ;;
  status)
    if [ -f "$banner" ]; then health healthy "the banner is there"; else health missing "there is no banner"; fi
    ;;
  logs)
    [ ! -f "$banner" ] || cat "$banner"
    ;;
  destroy)
    rm -f "$banner"
    ;;
  *)
    fail "banner has no $EXCLAVE_OPERATION"
    ;;
esac
