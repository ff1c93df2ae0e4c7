/** The id of a request. In a project it is a link to the entry in the API log. */
import { Link, useParams } from '@tanstack/react-router';
import type { ReactNode } from 'react';

const LOOK = 'font-mono text-xs break-all';

export function RequestLink({ id }: { id: string }): ReactNode {
  const { project, environment } = useParams({ strict: false });
  if (project === undefined || environment === undefined) return <code className={LOOK}>{id}</code>;
  return (
    <Link
      to="/$project/$environment/api-log"
      params={{ project, environment }}
      search={{ id }}
      className={`${LOOK} underline`}
    >
      {id}
    </Link>
  );
}
