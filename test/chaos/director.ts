/**
 * Directs a run. A load sends mail while faults strike one after the other, each process starts with failpoints, and
 * receivers fail. Then all faults end and the queue drains.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { waitFor } from '../support/wait.ts';
import type { FailpointPlan } from './faults/armed-failpoints.ts';
import { Attacker } from './attacker/attacker.ts';
import { randomFor } from './random.ts';
import { INJECT, type FaultContext } from './faults/faults.ts';
import { Load } from './load/load.ts';
import type { ChaosNode } from './node.ts';
import type { ChaosOptions } from './options.ts';
import type { ReadStream } from './ledger/ledger-types.ts';
import { type Fault, round } from './faults/schedule.ts';
import type { Stage } from './stage.ts';
import { StreamReaders } from './load/streams.ts';

/** Milliseconds between two faults, once two nodes are up. */
const FAULT_EVERY_MS = { quick: 1_500, long: 5_000 };
const RECEIVER_FAULT_EVERY_MS = 300;
const PER_SECOND = { quick: 60, long: 25 };
/** Milliseconds that a node, armed with the last failpoints, has to hit one before the next node is armed. */
const POINT_WITHIN_MS = 12_000;
const POINTS_WITHIN_MS = 480_000;
const EXERCISED_WITHIN_MS = 60_000;
const ANSWERED_WITHIN_MS = 180_000;
const SOME_UP_WITHIN_MS = 15_000;
const UP_WITHIN_MS = 180_000;

export class Director {
  readonly load: Load;
  readonly attacker: Attacker;
  readonly context: FaultContext;
  /** Events that each reader of the stream got until the queue had drained. */
  streams: readonly ReadStream[] = [];
  readonly #readers: StreamReaders;
  readonly #options: ChaosOptions;
  readonly #stage: Stage;
  readonly #log: (line: string) => void;
  readonly #plan: FailpointPlan;
  readonly #begunMs = performance.now();
  readonly #faults = new Set<Promise<void>>();
  #isBroken = false;

  constructor(
    options: ChaosOptions,
    { stage, plan, log }: { stage: Stage; plan: FailpointPlan; log: (line: string) => void },
  ) {
    const { seed, emails, minutes } = options;
    this.#options = options;
    this.#stage = stage;
    this.#plan = plan;
    this.#log = log;
    this.load = new Load({
      nodes: stage.nodes,
      testKey: stage.testKey,
      liveKey: stage.liveKey,
      adminKey: stage.adminKey,
      databaseSkewMs: () => stage.databaseClock.skewMs,
      emails,
      perSecond: minutes === null ? PER_SECOND.quick : PER_SECOND.long,
      random: randomFor(seed, 'load'),
      retryRandom: randomFor(seed, 'retries'),
    });
    this.attacker = new Attacker({
      nodes: stage.nodes,
      keys: stage.attacker,
      random: randomFor(seed, 'attacker'),
      victim: () => ({
        emailId: this.load.requests.findLast(({ ids }) => ids.length > 0)?.ids[0] ?? '',
        domainId: [...stage.leaving.values()][0]!,
      }),
    });
    this.#readers = new StreamReaders(stage, randomFor(seed, 'streams'));
    this.context = {
      stage,
      load: this.load,
      attacker: this.attacker,
      plan,
      random: randomFor(seed, 'faults'),
      freezes: [],
      findings: [],
      suppressed: [],
      stopped: [],
      log,
      clockJumps: 0,
      isLong: minutes !== null,
    };
  }

  /** Injects faults over a load until every failpoint was hit and the time is over. */
  async run(): Promise<void> {
    const { nodes } = this.#stage;
    this.#plan.begin();
    for (const node of nodes) node.keep();
    this.load.start();
    this.#readers.start();
    const receiverFaults = this.#changeReceiverFaults();
    try {
      // Node a started unarmed to set the stage, and this stop makes it start again armed. The others are armed
      // already.
      await nodes[0].stop();
      await this.#injectRounds();
      await this.#hitRemaining();
      await this.attacker.finish();
      await this.#exerciseRemaining();
    } finally {
      this.#isBroken = true;
      await receiverFaults;
    }
  }

  async #changeReceiverFaults(): Promise<void> {
    const { receivers, hooks } = this.#stage;
    const random = randomFor(this.#options.seed, 'receivers');
    while (!this.#isBroken) {
      const kind = random.next();
      if (kind < 0.85) await receivers.change(random);
      else hooks.changeFault(random);
      await delay(RECEIVER_FAULT_EVERY_MS);
    }
  }

  /** Injects rounds of faults: one round, or further rounds until the minutes are over. */
  async #injectRounds(): Promise<void> {
    const { minutes } = this.#options;
    const everyMs = minutes === null ? FAULT_EVERY_MS.quick : FAULT_EVERY_MS.long;
    const untilMs = this.#begunMs + (minutes ?? 0) * 60_000;
    do {
      for (const fault of round(this.context.random)) {
        await delay(everyMs);
        // Faults need running nodes.
        await this.#untilSomeAreUp();
        this.#begin(fault);
      }
    } while (performance.now() < untilMs);
  }

  async #untilSomeAreUp(): Promise<void> {
    const areUp = (): boolean => this.#stage.nodes.filter(({ isUp }) => isUp).length >= 2;
    await waitFor(areUp, { what: 'two nodes', timeoutMs: SOME_UP_WITHIN_MS }).catch(() => {});
  }

  #begin(fault: Fault): void {
    const { accepted } = this.load;
    this.#log(`${fault} (${accepted} emails accepted, ${this.#plan.unhit.size} points to hit)`);
    const injection = INJECT[fault](this.context).catch((error: unknown) => {
      this.#log(`${fault}: ${(error as Error).message}`);
    });
    this.#faults.add(injection);
    void injection.finally(() => this.#faults.delete(injection));
  }

  /** Restarts nodes, armed with the remaining failpoints, until every failpoint was hit. */
  async #hitRemaining(): Promise<void> {
    const { unhit } = this.#plan;
    const deadlineMs = performance.now() + POINTS_WITHIN_MS;
    await Promise.all(this.#faults);
    for (let turn = 1; unhit.size > 0 && performance.now() < deadlineMs; turn += 1) {
      const node = this.#stage.nodes[turn % 3]!;
      const before = unhit.size;
      this.#log(`still to hit: ${[...unhit].join(', ')}`);
      if (unhit.has('reclaim_before_commit')) await INJECT.kill_node(this.context);
      else await node.stop();
      await this.#untilUp(node);
      if (this.#plan.hasOnlyTheStopLeft) await node.stop();
      const what = 'a failpoint';
      await waitFor(() => unhit.size < before, { what, timeoutMs: POINT_WITHIN_MS }).catch(
        () => {},
      );
    }
  }

  /** Continues the load until every failure of the receivers has met mail. */
  async #exerciseRemaining(): Promise<void> {
    const { receivers } = this.#stage;
    const deadlineMs = performance.now() + EXERCISED_WITHIN_MS;
    const left = receivers.unexercised();
    if (left.length > 0) this.#log(`faults without mail: ${left.join(', ')}`);
    while (receivers.unexercised().length > 0 && performance.now() < deadlineMs) {
      await delay(RECEIVER_FAULT_EVERY_MS);
    }
  }

  /**
   * Ends all failures and stops each node under load, so that it starts anew. Old processes remember dead mail servers,
   * which would delay the end by minutes.
   */
  async heal(): Promise<void> {
    const { nodes, proxies, receivers, hooks, clocks } = this.#stage;
    const [, ...others] = nodes;
    await Promise.all(this.#faults);
    this.#plan.disarm();
    for (const node of others) node.disturbed('healed: cut off from the database once more');
    for (const proxy of proxies) {
      proxy.cut();
      await proxy.heal();
    }
    await receivers.settle();
    hooks.settle();
    for (const { name, service } of nodes) {
      clocks.set(name, 0);
      // Slowness now means a busy machine, not a server that hangs.
      service.env['LETTERHAUS_SMTP_TIMEOUT_S'] = '60';
    }
    await this.restartAll();
    let isAnswered = false;
    void this.load.end().then(() => (isAnswered = true));
    await waitFor(() => isAnswered, { what: 'all clients', timeoutMs: ANSWERED_WITHIN_MS });
  }

  /** Number of events that the readers of the stream got. */
  get streamed(): number {
    return this.streams.reduce((sum, { received }) => sum + received.length, 0);
  }

  /** Ends the readers after the queue has drained, and before the database loses events that they have read. */
  async finishReading(): Promise<void> {
    this.streams = await this.#readers.finish();
  }

  /** Ends all senders of requests, because the run has failed or is over. */
  async giveUp(): Promise<void> {
    this.load.giveUp();
    this.attacker.giveUp();
    await this.#readers.stop();
  }

  /** Restarts all nodes, because a node slows down for minutes towards a server that was slow for a moment. */
  async restartAll(): Promise<void> {
    const [a, ...others] = this.#stage.nodes;
    await this.#restart(a);
    await Promise.all(others.map((node) => this.#restart(node)));
  }

  async #restart(node: ChaosNode): Promise<void> {
    await this.#untilUp(node);
    const end = await node.stop();
    this.#log(`${node.name} stopped with ${end}`);
    await this.#untilUp(node);
  }

  async #untilUp(node: ChaosNode): Promise<void> {
    await waitFor(() => node.isUp, { what: `${node.name} to be up`, timeoutMs: UP_WITHIN_MS });
  }
}
