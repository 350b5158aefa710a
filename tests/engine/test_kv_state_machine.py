"""Random walks through the engine's memory; the machine is in testkit.kv_machine.

`make soak` walks 100,000 steps.
"""

from hypothesis import settings

from testkit.kv_machine import FlyingKVMachine, KVMachine

TestKVMachine = KVMachine.TestCase
TestKVMachine.settings = settings(max_examples=70, stateful_step_count=50)

TestFlyingKVMachine = FlyingKVMachine.TestCase
TestFlyingKVMachine.settings = settings(max_examples=50, stateful_step_count=50)
