/** Ways to lose the leader. Each begins with a healthy cluster, and returns how to end it. */
import type { Cluster } from './cluster.ts';

export type Fault = {
  title: string;
  /** Resolves when another machine leads, or would. @returns ends the fault */
  begin(cluster: Cluster): Promise<() => Promise<void>>;
};

export const FAULTS: readonly Fault[] = [
  {
    title: 'the machine of the leader is lost',
    async begin(cluster) {
      const lost = await cluster.leader();
      await lost.kill9();
      await cluster.untilPromoted(lost);
      return async () => lost.start();
    },
  },
  {
    title: 'the machine of the leader hangs',
    async begin(cluster) {
      const frozen = await cluster.leader();
      await frozen.signalAll('SIGSTOP');
      await cluster.untilPromoted(frozen);
      return () => frozen.signalAll('SIGCONT');
    },
  },
  {
    title: 'Patroni of the leader is killed, and its PostgreSQL goes on as a second primary',
    async begin(cluster) {
      const alone = await cluster.leader();
      await alone.killPatroni();
      await cluster.untilPromoted(alone);
      return async () => alone.startPatroni();
    },
  },
  {
    title: 'a planned switch-over',
    async begin(cluster) {
      const before = await cluster.leader();
      await cluster.switchOver();
      await cluster.untilPromoted(before);
      return async () => {};
    },
  },
  {
    title: 'etcd loses its majority, and no machine may lead',
    async begin(cluster) {
      const leader = await cluster.leader();
      const others = cluster.machines.filter((machine) => machine !== leader);
      for (const machine of others) machine.signalEtcd('SIGSTOP');
      await leader.untilStandby();
      for (const machine of others) machine.signalEtcd('SIGCONT');
      return async () => {};
    },
  },
];
