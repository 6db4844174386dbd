"""The scenario with pytest-lsp: edit, lens, run, log, diagnostic on the right line, fix, cleared, artifacts."""

import asyncio
import os
from pathlib import Path

import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

folder = Path(os.environ["FOLDER"])
main = folder / "main.py"


@pytest_lsp.fixture(config=ClientServerConfig(server_command=[os.environ["BELLJAR_BIN"], "lsp"]))
async def client(lsp_client: LanguageClient):
    # A message that its client does not know.
    @lsp_client.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)
    def choose(params: types.ShowMessageRequestParams):
        return None

    @lsp_client.feature(types.WORKSPACE_CODE_LENS_REFRESH)
    def refresh(params):
        return None

    @lsp_client.feature(types.CLIENT_REGISTER_CAPABILITY)
    def register(params: types.RegistrationParams):
        return None

    await lsp_client.initialize_session(
        types.InitializeParams(
            capabilities=client_capabilities("visual-studio-code"),
            workspace_folders=[types.WorkspaceFolder(uri=folder.as_uri(), name="x")],
        )
    )
    yield
    await lsp_client.shutdown_session()


async def until(so):
    async with asyncio.timeout(240):
        while not so():
            await asyncio.sleep(0.02)  # between two checks of the condition


async def test_scenario(client: LanguageClient):
    uri = main.as_uri()
    document = types.TextDocumentIdentifier(uri=uri)
    client.text_document_did_open(
        types.DidOpenTextDocumentParams(types.TextDocumentItem(uri=uri, language_id="python", version=1, text=main.read_text()))
    )
    (lens,) = await client.text_document_code_lens_async(types.CodeLensParams(text_document=document))
    assert lens.range.start.line == 3
    assert lens.command.title == "▶ Run in Sandbox"
    await client.workspace_execute_command_async(
        types.ExecuteCommandParams(command=lens.command.command, arguments=lens.command.arguments)
    )
    await until(lambda: client.diagnostics.get(uri))
    (found,) = client.diagnostics[uri]
    assert (found.range.start.line, found.range.start.character, found.range.end.character) == (1, 11, 16)
    assert found.message == "ZeroDivisionError: division by zero (exit status 1)"
    await until(lambda: any(m.message == "hello" for m in client.log_messages))

    def change(version, line, start, end, text):
        span = types.Range(types.Position(line, start), types.Position(line, end))
        client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                text_document=types.VersionedTextDocumentIdentifier(uri=uri, version=version),
                content_changes=[types.TextDocumentContentChangePartial(range=span, text=text)],
            )
        )

    change(2, 5, 4, 11, "open('out.txt', 'w').write(str(load(0)))")
    change(3, 1, 11, 16, "n + 1")
    await until(lambda: not client.diagnostics[uri])
    run = await client.workspace_execute_command_async(
        types.ExecuteCommandParams(command="tldw.sandbox.run", arguments=[{"uri": uri, "wait": True, "capture_patterns": ["*.txt"]}])
    )
    run = run if isinstance(run, dict) else run._asdict()
    assert run["exit_code"] == 0
    left = await client.workspace_execute_command_async(
        types.ExecuteCommandParams(command="tldw.sandbox.openArtifacts", arguments=[{"run_id": run["run_id"]}])
    )
    left = left if isinstance(left, dict) else left._asdict()
    (item,) = left["items"]
    item = item if isinstance(item, dict) else item._asdict()
    assert (item["path"], item["size"]) == ("out.txt", 1)
