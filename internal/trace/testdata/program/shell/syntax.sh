if true; then
  echo yes
done
