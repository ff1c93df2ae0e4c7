/** Statements about running machines: nodes, their host names, their view of providers. */
import { newId } from '../../src/database/ids.ts';
import * as mailHosts from '../../src/domains/mail-host-store.ts';
import * as nodes from '../../src/delivery/queue/worker-store.ts';
import {
  readProviderStates,
  writeProviderStates,
} from '../../src/delivery/shaping/provider-state-store.ts';
import type { Stage } from './statements.ts';

export async function useMailHosts({ db }: Stage): Promise<void> {
  const [instance, name] = [newId(), 'mail.a.test'];
  await mailHosts.noteMailHost(db, { instance, name, sourceIps: ['192.0.2.1'] });
  await mailHosts.adoptReturnPathHost(db, { instance, name });
  await mailHosts.changeReturnPathHost(db, { name, isExpected: () => true });
}

export async function useNodes({ db }: Stage): Promise<void> {
  const id = newId();
  await nodes.registerWorker(db.heartbeat, { id, instance: newId(), host: 'here', pid: 1 });
  await nodes.incrementHeartbeat(db.heartbeat, id);
  await nodes.setUplinkDown(db, id, false);
  await nodes.commitAsHeartbeat(db);
  await nodes.listWorkers(db);
  await nodes.readWorkersAndSchema(db);
  await nodes.readClockMs(db);
  const provider = { provider: 'a.test', state: 'open', reason: null, forMs: null } as const;
  const changed = [{ ...provider, connectionsMax: 2, connectionsOpen: 1 }];
  await writeProviderStates(db, id, { changed, removed: ['b.test'] });
  await readProviderStates(db);
}
