/** Shows that the service cannot be reached, since when, and the time at which the page was read. */
import { CloudOff, PlugZap } from 'lucide-react';
import type { ReactNode } from 'react';
import { type Connection, type Outage, useConnection } from '../api/stream/connection.ts';

const clockTime = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

const OUTAGES: Record<Outage, string> = {
  offline: 'You have been offline since',
  unreachable: 'The service has not responded since',
  unavailable: 'The service has been unavailable since',
};

export function ConnectionLine(): ReactNode {
  const connection = useConnection();
  // The element stays, so that screen readers announce its text.
  return (
    <div role="status" aria-label="Connection">
      {connection.kind !== 'up' && (
        <p className="flex items-center gap-2 bg-toast px-(--page-x) py-1.5 text-sm text-on-toast">
          {connection.kind === 'down' ? (
            <CloudOff size={15} aria-hidden className="shrink-0" />
          ) : (
            <PlugZap size={15} aria-hidden className="shrink-0" />
          )}
          <span>{textOf(connection)}</span>
        </p>
      )}
    </div>
  );
}

function textOf(connection: Exclude<Connection, { kind: 'up' }>): string {
  if (connection.kind === 'back') return 'Connected again. The page is up to date.';
  const { outage, sinceMs, readAtMs } = connection;
  const since = `${OUTAGES[outage]} ${clockTime.format(sinceMs)}.`;
  if (readAtMs === null) return `${since} The page reconnects automatically.`;
  return `${since} The page was last updated at ${clockTime.format(readAtMs)}. It reconnects automatically.`;
}
