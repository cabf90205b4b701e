"""Parts of many pages."""

from __future__ import annotations

from threading import Thread
from typing import Any

import streamlit as st
from streamlit.runtime.fragment import MemoryFragmentStorage
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import RerunData, RerunException, ScriptRunContext, add_script_run_ctx
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequests
from streamlit.runtime.state import SafeSessionState, SessionState
from streamlit.runtime.uploaded_file_manager import UploadedFileManager

from pages.parts import widgets


def run_again(draw: Any) -> RerunData:
    """What runs after `draw` has run the page again, while the browser has gone back meanwhile."""
    requests, next_runs = ScriptRequests(), list[RerunData]()
    requests.request_rerun(RerunData(query_string="request=5", page_script_hash="asked for"))

    def enqueue(_message: Any) -> None:
        if request := requests.on_scriptrunner_yield():
            raise RerunException(request.rerun_data)

    def run() -> None:
        state = SafeSessionState(SessionState(), lambda: None)
        context = ScriptRunContext(
            session_id="test",
            _enqueue=enqueue,
            query_string="request=6",
            session_state=state,
            uploaded_file_mgr=UploadedFileManager,  # type: ignore[type-abstract, arg-type]
            main_script_path="",
            user_info={},
            fragment_storage=MemoryFragmentStorage(),
            pages_manager=PagesManager(""),
            script_requests=requests,
        )
        context.reset(query_string="request=6", page_script_hash="before")
        add_script_run_ctx(thread, context)
        try:
            draw()
        except RerunException as error:
            next_runs.append(error.rerun_data)

    thread = Thread(target=run)
    thread.start()
    thread.join()
    return next_runs[0]


def test_running_the_page_again_takes_nobody_back() -> None:
    asked = run_again(widgets.rerun_page)
    assert (asked.query_string, asked.page_script_hash) == ("request=5", "asked for")
    lost = run_again(st.rerun)
    assert (lost.query_string, lost.page_script_hash) == ("request=6", "before"), "what it is for; else it can go"
