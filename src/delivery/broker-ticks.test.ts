/** The broker's clock. */
import { mock, test } from 'node:test';
import assert from 'node:assert/strict';
import { BrokerTicks } from './broker-ticks.ts';

/** A broker of which only the clock is seen. */
function clockOf(tickWithinMs: number) {
  const broker = { tickWithinMs, ticks: 0, tick: () => void (broker.ticks += 1) };
  return { broker, ticks: new BrokerTicks(broker) };
}

/** Quarters of a second, one after the other: a timer may set the next. */
function pass(quarters: number): void {
  for (let quarter = 0; quarter < quarters; quarter += 1) mock.timers.tick(250);
}

test('the broker is called while something is to happen with time, and then no more', () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const { broker, ticks } = clockOf(250);
    ticks.wind();
    pass(4);
    assert.equal(broker.ticks, 4);
    broker.tickWithinMs = Infinity;
    pass(40);
    assert.equal(broker.ticks, 5);
  } finally {
    mock.timers.reset();
  }
});

test('what is to happen soon does not wait for what is to happen late', () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const { broker, ticks } = clockOf(10_000);
    ticks.wind();
    broker.tickWithinMs = 250;
    ticks.wind();
    pass(1);
    assert.equal(broker.ticks, 1);
  } finally {
    mock.timers.reset();
  }
});

test('a service without mail does not wake the broker at all, nor one that has ended', () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const { broker, ticks } = clockOf(Infinity);
    ticks.wind();
    pass(240);
    assert.equal(broker.ticks, 0);
    broker.tickWithinMs = 250;
    ticks.wind();
    ticks.stop();
    ticks.wind();
    pass(240);
    assert.equal(broker.ticks, 0);
  } finally {
    mock.timers.reset();
  }
});
