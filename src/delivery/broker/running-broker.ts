/** The broker of a machine as it runs: with its timer, and with a log of the uplink and of providers. */
import type { Logger } from 'pino';
import type { World } from '../../lib/world.ts';
import { logUplink } from '../outage/uplink-log.ts';
import { ProviderLog } from '../shaping/provider-log.ts';
import type { ShapingSettings } from '../shaping/settings.ts';
import { Broker, BrokerTimer } from './broker.ts';
import type { BrokerMessage, WorkerMessage } from './broker-messages.ts';

type RunningBrokerOptions = {
  settings: ShapingSettings;
  world: Pick<World, 'monotonicMs' | 'random'>;
  log: Logger;
  send: (worker: number, messages: readonly BrokerMessage[]) => void;
};

export class RunningBroker {
  readonly #broker: Broker;
  readonly #timer: BrokerTimer;

  constructor({ settings, world, log, send }: RunningBrokerOptions) {
    const providerLog = new ProviderLog({ log, world });
    this.#broker = new Broker({
      settings,
      world,
      send,
      onUplink: (change) => logUplink(log, change),
      onProvider: (change) => providerLog.noteChange(change),
    });
    this.#timer = new BrokerTimer(this.#broker);
  }

  /** Adds a worker that is ready to receive. */
  addWorker(worker: number): void {
    this.#broker.addWorker(worker);
  }

  removeWorker(worker: number): void {
    this.#broker.removeWorker(worker);
    this.#timer.schedule();
  }

  receive(worker: number, messages: readonly WorkerMessage[]): void {
    this.#broker.receive(worker, messages);
    this.#timer.schedule();
  }

  stop(): void {
    this.#timer.stop();
  }
}
