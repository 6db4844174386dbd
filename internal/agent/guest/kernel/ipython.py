"""The Python kernel with the image's IPython, which executes cells instead of the kernel's own code."""


def ipython(kernel):
    """Makes a shell of the image's IPython that executes cells in this module and shows results like this program."""
    import tempfile
    import warnings

    warnings.filterwarnings("ignore", "To exit: ")  # for sys.exit()
    kernel.hooks.after.pop("IPython.display")  # it displays through the shell
    from IPython.core.compilerop import CachingCompiler
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets import Type
    from traitlets.config import Config

    class Compiler(CachingCompiler):
        def get_code_name(self, raw_code, transformed_code, number):
            return "<cell %d>" % kernel.cell

    class Hook(DisplayHook):
        def write_output_prompt(self):
            pass

        def compute_format_data(self, result):
            data, about = super().compute_format_data(result)
            return dict(bundle(result, kernel.shown), **data), about

        def write_format_data(self, format_dict, md_dict=None):
            kernel.result("value", data=bounded(format_dict), count=kernel.cell)

        def finish_displayhook(self):
            pass

    class Publisher(DisplayPublisher):
        def publish(self, data, *_, **__):
            kernel.result("display", data=bounded(data))

        def clear_output(self, wait=False):
            pass

    class Shell(InteractiveShell):
        compiler_class, displayhook_class, display_pub_class = Type(Compiler), Type(Hook), Type(Publisher)

        def showtraceback(self, *_, **__):  # the kernel reports the error when the cell has ended
            pass

        showsyntaxerror = showtraceback

        def enable_gui(self, gui=None):  # there is no GUI
            pass

        def ask_exit(self):  # called by exit and quit
            raise SystemExit

        def system(self, cmd):
            kernel.flush()
            self.system_raw(cmd)

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    del kernel.ns["display"]
    shell = Shell.instance(config=config, user_module=kernel.module, ipython_dir=tempfile.mkdtemp(prefix="ipython-"))
    shell.register_magic_function(kernel.pip, "line", "pip")
    return shell
