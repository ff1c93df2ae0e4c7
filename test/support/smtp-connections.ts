/** The connections of a worker with a broker of its own, for tests of delivery without a service. */
import type { BrokerMessage, WorkerMessage } from '../../src/delivery/broker/broker-messages.ts';
import { Broker } from '../../src/delivery/broker/broker.ts';
import { newId } from '../../src/database/ids.ts';
import { DEFAULT_SHAPING } from '../../src/delivery/shaping/settings.ts';
import { SmtpConnections } from '../../src/delivery/shaping/smtp-connections.ts';

export const TEST_WORLD = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  random: () => 0.5,
  newId,
};

export function connectionsTo({ port }: { port: number }): SmtpConnections {
  const world = TEST_WORLD;
  const broker = new Broker({
    settings: DEFAULT_SHAPING,
    world,
    send: (_, messages: readonly BrokerMessage[]) =>
      setImmediate(() => connections.receive(messages)),
  });
  broker.addWorker(0);
  const connections = new SmtpConnections({
    world,
    port,
    heloName: 'out.letterhaus.test',
    sources: [],
    shaping: DEFAULT_SHAPING,
    send: (messages: readonly WorkerMessage[]) => setImmediate(() => broker.receive(0, messages)),
  });
  return connections;
}
