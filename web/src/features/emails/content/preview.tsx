/** Shows an email in a frame without scripts, forms or an origin. */
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import type { Email } from '../../../../../sdk/src/api.ts';
import { queryText } from '../../../api/operations.ts';
import { useApi } from '../../../api/scope.ts';
import { Problem, RowsSkeleton } from '../../../ui/states.tsx';
import {
  lookOf,
  PreviewControls,
  type PreviewView,
  schemeOf,
  widthOf,
} from '../../../ui/preview-view.tsx';

/** @param view is kept in the address of the page */
export function EmailPreview(props: {
  email: Pick<Email, 'id' | 'html'>;
  view: PreviewView;
  onView: (view: PreviewView) => void;
}): ReactNode {
  const { email, view, onView } = props;
  const api = useApi();
  const [hasRemote, setRemote] = useState(false);
  const link = useQuery({
    ...api.query('previewEmail', { path: { id: email.id } }),
    queryKey: [...api.key, 'link', email.id, hasRemote, view.isDark],
    // A new link would load the frame again.
    staleTime: Infinity,
    gcTime: 0,
  });
  if (link.isPending) return <RowsSkeleton rows={4} />;
  if (link.isError) return <Problem error={link.error} retry={() => void link.refetch()} />;
  // The page of the link on this host, whatever the public URL is.
  const query = queryText({ remote: hasRemote ? null : 'no', scheme: schemeOf(email.html, view) });
  const page = `${new URL(link.data.url).pathname}${query}`;
  return (
    <div className="space-y-3">
      <PreviewControls
        html={email.html}
        {...{ view, onView, hasRemote }}
        onRemote={() => setRemote(true)}
      />
      <div className="overflow-x-auto">
        <iframe
          key={page}
          title="Preview of the email"
          sandbox=""
          referrerPolicy="no-referrer"
          src={page}
          className={`h-150 max-w-full rounded-lg border border-line ${lookOf(email.html, view)}`}
          style={{ width: widthOf(view) }}
        />
      </div>
    </div>
  );
}
