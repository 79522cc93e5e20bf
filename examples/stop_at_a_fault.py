"""Trains a small network under checks and stops at the step in which its arithmetic went wrong.

No faulty accelerator is needed: at step 12 one number of one product is changed, as a silent fault would do. The loss
shows nothing; the checks name the step and the layer. Run it with `python examples/stop_at_a_fault.py`.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import veristate

FAULTY_STEP = 12


class SilentFault(TorchDispatchMode):
    """Adds a tenth to one output of the second product of the faulty step: finite, plausible, wrong."""

    step = 0
    products = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Runs the operation, then spoils it if it is the one."""
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in ("addmm", "mm"):
            self.products += 1
            if self.step == FAULTY_STEP and self.products == 2:
                out[3, 5] += 0.1
        return out


def main() -> None:
    """Trains for 30 steps, or until a fault is proven."""
    torch.manual_seed(0)
    X = torch.randn(512, 40)
    target = X[:, :3].sum(dim=1, keepdim=True).sin()
    model = torch.nn.Sequential(torch.nn.Linear(40, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU())
    model.append(torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    # The fault stands for the device, so it is outside the checks.
    with SilentFault() as device, veristate.checked(model) as checks:
        for step in range(30):
            device.step, device.products = step, 0
            optimizer.zero_grad()
            loss = (model(X) - target).square().mean()
            loss.backward()
            if checks.flags:
                print(f"step {step}: loss {loss.item():.4f}, and a fault is proven; the step is not taken")
                break
            optimizer.step()
            if step % 5 == 0:
                print(f"step {step}: loss {loss.item():.4f}")
    print(checks.report())


if __name__ == "__main__":
    main()
