/** Whether the dialog for a new object is open. The palette opens it together with the screen. */
import { useLocation } from '@tanstack/react-router';
import { useEffect, useState } from 'react';

export function useCreating(): [isCreating: boolean, setCreating: (isCreating: boolean) => void] {
  const { state } = useLocation();
  const [isCreating, setCreating] = useState(false);
  useEffect(() => {
    if (state.isCreating === true) setCreating(true);
  }, [state]);
  return [isCreating, setCreating];
}
