-- The scenario in Neovim: edit, lens, run, log, diagnostic on the right line, fix, cleared, artifacts.
local log, patience = {}, 240000

local function must(so, what)
  if not so then
    print("FAILED: " .. what)
    vim.cmd("cquit 1")
  end
end
local function wait(what, so)
  must(vim.wait(patience, so, 20), what .. "\n" .. table.concat(log, "\n"))
end

vim.lsp.handlers["window/logMessage"] = function(_, m) table.insert(log, m.message) end
vim.lsp.handlers["window/showMessageRequest"] = function(_, m)
  table.insert(log, m.message)
  return vim.NIL
end

vim.cmd("edit main.py")
wait("there is a lens", function() return #vim.lsp.codelens.get(0) == 1 end)
local lens = vim.lsp.codelens.get(0)[1]
must(lens.command.title == "▶ Run in Sandbox" and lens.range.start.line == 3, vim.inspect(lens))
vim.api.nvim_win_set_cursor(0, { 4, 0 })
vim.api.nvim_feedkeys("\\r", "x", false)
wait("the failure is marked", function() return #vim.diagnostic.get(0) == 1 end)
local found = vim.diagnostic.get(0)[1]
must(found.lnum == 1 and found.col == 11 and found.end_col == 16 and found.message:find("^ZeroDivisionError: division by zero"), vim.inspect(found))
wait("the log has the output", function() return vim.tbl_contains(log, "hello") end)
wait("the end is reported", function() return log[#log]:find("main.py exited with status 1") end)

vim.api.nvim_buf_set_lines(0, 1, 2, true, { "    return n + 1" })
vim.api.nvim_buf_set_lines(0, 5, 6, true, { "    open('out.txt', 'w').write(str(load(0)))" })
wait("the mark is gone", function() return #vim.diagnostic.get(0) == 0 end)

local function command(name, argument)
  local answers, err = vim.lsp.buf_request_sync(0, "workspace/executeCommand", { command = name, arguments = { argument } }, patience)
  must(answers, tostring(err))
  for _, answer in pairs(answers) do
    must(answer.result, vim.inspect(answer))
    return answer.result
  end
end
local run = command("tldw.sandbox.run", { uri = vim.uri_from_bufnr(0), wait = true, capture_patterns = { "*.txt" } })
must(run.exit_code == 0, vim.inspect(run))
local left = command("tldw.sandbox.openArtifacts", { run_id = run.run_id })
must(#left.items == 1 and left.items[1].path == "out.txt" and left.items[1].size == 1, vim.inspect(left))
print("PASSED")
vim.cmd("qall!")
