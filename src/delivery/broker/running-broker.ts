/** The broker of a machine as it runs: with its timer, and with a log of the uplink and of providers. */
import type { Logger } from 'pino';
import type { World } from '../../lib/world.ts';
import type { UplinkChange } from '../outage/uplink.ts';
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

/** Logs when no mail server answers this machine (delivery/outage/uplink.ts), and when one answers again. */
function logUplink(log: Logger, { isDown, failedForMs }: UplinkChange): void {
  const logFields = { no_answer_s: Math.round(failedForMs / 1_000) };
  if (!isDown) {
    log.info(logFields, 'a mail server answers again; mail that waited for it is due now');
    return;
  }
  log.warn(
    logFields,
    'no mail server anywhere answers this machine, so the uplink counts as down: check the network, ' +
      'its DNS servers, and whether outgoing connections to port 25 are blocked; mail is kept and retried meanwhile',
  );
}
