def inner
  Integer("x")
end

begin
  inner
rescue ArgumentError
  raise "outer"
end
