import { useQuery } from '@tanstack/react-query';
import { useEffect } from 'react';
import type { Email } from '../../../../../sdk/src/api.ts';
import { useApi } from '../../../api/scope.ts';

/** The email of a page, which has its subject as title. */
export function useEmail(id: string) {
  const api = useApi();
  const email = useQuery({
    queryKey: [...api.key, 'email', id],
    queryFn: ({ signal }) => api.get<Email>(`/v1/emails/${id}`, signal),
  });
  const subject = email.data?.subject;
  useEffect(() => {
    if (subject !== undefined) document.title = `${subject} · Letterhaus`;
  }, [subject]);
  return email;
}
