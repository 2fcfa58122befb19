"""How kernels and the functions that they call are compiled.

Helpers are called by kernels alone, and kernels by Python alone: wrappers for others cost time to compile.
The code of a helper is optimized as a part of the kernels that it is linked into, and that of a kernel once.
Numba would do both in several rounds, for the sake of counted references, of which there are none here; and
it would make machine code of helpers, which nobody runs.
"""

from __future__ import annotations

from typing import Any

from numba import _dynfunc, njit  # type: ignore[attr-defined]
from numba.core import codegen, compiler, typed_passes
from numba.core.compiler_machinery import register_pass


class _KernelCode(codegen.JITCodeLibrary):
    """The code of a kernel, with all that it calls."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout  # the rest is done for all functions together

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()  # type: ignore[no-untyped-call]
        passes.run(self._final_module, builder)


class _HelperCode(_KernelCode):
    """The code of a helper: as it is, until it is linked into a kernel's."""

    def finalize(self) -> None:
        self._raise_if_finalized()  # type: ignore[no-untyped-call]
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _KernelLowering(typed_passes.NativeLowering):
    _name = "kernel_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _KernelCode(state.targetctx.codegen(), state.func_id.func_qualname)  # type: ignore[no-untyped-call]
        state.library.enable_object_caching()
        return bool(super().run_pass(state))  # type: ignore[no-untyped-call]


@register_pass(mutates_CFG=True, analysis_only=False)  # type: ignore[no-untyped-call]
class _HelperLowering(typed_passes.NativeLowering):
    """Makes code that can be linked, and not yet run."""

    _name = "helper_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _HelperCode(state.targetctx.codegen(), state.func_id.func_qualname)  # type: ignore[no-untyped-call]
        state.flags.no_compile = True
        super().run_pass(state)  # type: ignore[no-untyped-call]
        made = state["cr"]
        # what callers know it by; Python cannot call it
        known = _dynfunc.make_function(
            made.fndesc.lookup_module(), made.fndesc.qualname, "", 0, made.env, (state.library,)
        )
        state.targetctx.insert_user_function(known, made.fndesc, [state.library])
        state["cr"] = made._replace(cfunc=known)
        return True


class _Compiler(compiler.CompilerBase):
    """Numba's passes, with another for the last but one."""

    lowering: type[Any]

    def define_pipelines(self) -> list[Any]:
        made = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)  # type: ignore[no-untyped-call]
        own = {typed_passes.NativeLowering: self.lowering}
        made.passes = [(own.get(one, one), about) for one, about in made.passes]
        made._finalized = False
        made.finalize()
        return [made]


class _KernelCompiler(_Compiler):
    lowering = _KernelLowering


class _HelperCompiler(_Compiler):
    lowering = _HelperLowering


_HELPER: dict[str, Any] = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
helper = njit(**_HELPER, pipeline_class=_HelperCompiler)
product = njit(**_HELPER, pipeline_class=_HelperCompiler, fastmath={"contract"})
_KERNEL: dict[str, Any] = {"_nrt": False, "no_cfunc_wrapper": True}
kernel = njit(**_KERNEL, cache=True, pipeline_class=_KernelCompiler)
